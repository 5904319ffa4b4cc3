//! What an image is, by its first bytes: what a client says about it is not believed.

/// So many bytes say it.
pub const HEAD_BYTES: usize = 16;

/// The type of an image that models and browsers show; none for anything else. No SVG, which is a program.
pub fn sniff(head: &[u8]) -> Option<&'static str> {
    let brand = head.get(4..12);
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ if brand == Some(b"ftypavif") || brand == Some(b"ftypavis") => Some("image/avif"),
        _ if brand == Some(b"ftypheic") || brand == Some(b"ftypheix") => Some("image/heic"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_bytes_and_nothing_else_is_one() {
        let images: [(&[u8], &str); 6] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
            (b"\0\0\0\x1cftypavif\0\0", "image/avif"),
            (b"\0\0\0\x18ftypheic\0\0", "image/heic"),
        ];
        for (head, kind) in images {
            assert_eq!(sniff(head), Some(kind));
            assert!(head.len() <= HEAD_BYTES || sniff(&head[..HEAD_BYTES]) == Some(kind));
        }
        for other in
            [&b""[..], b"\x89PNG", b"<svg xmlns=", b"<html>", b"%PDF-1.7", b"MZ", b"RIFF\0\0\0\0WAVE"]
        {
            assert_eq!(sniff(other), None, "{other:?}");
        }
    }
}
