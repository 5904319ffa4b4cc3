//! TLS at the listener: a certificate and its key, from PEM files.

use std::{fmt, io, path::Path, sync::Arc};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    },
};

/// What the listener shows to those who connect. Versions 1.2 and 1.3, HTTP/2 where the client can.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file with the certificate cannot be used.
    #[error("cannot read certificates from {path}")]
    Certificate {
        /// Which.
        path: String,
        /// Why not.
        #[source]
        error: pem::Error,
    },
    /// There is none in it.
    #[error("there is no certificate in {path}: it must be PEM, the server's own first")]
    NoCertificate {
        /// Which file.
        path: String,
    },
    /// The file with the key cannot be used.
    #[error("cannot read a private key from {path}")]
    Key {
        /// Which.
        path: String,
        /// Why not.
        #[source]
        error: pem::Error,
    },
    /// They do not go together, or are of a kind that is not known.
    #[error("the certificate and its key cannot be used")]
    Pair(#[source] rustls::Error),
}

impl Tls {
    /// With the certificates in one file, the server's own first, and its key in another.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let path = || certificate.display().to_string();
        let unreadable = |error| TlsError::Certificate { path: path(), error };
        let chain = CertificateDer::pem_file_iter(certificate).map_err(unreadable)?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { path: path() });
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| TlsError::Key { path: key.display().to_string(), error })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?
            .with_no_client_auth();
        let mut config = config.with_single_cert(chain, key).map_err(TlsError::Pair)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Shakes hands.
    pub(super) async fn accept(
        &self,
        stream: tokio::net::TcpStream,
    ) -> io::Result<tokio_rustls::server::TlsStream<tokio::net::TcpStream>> {
        TlsAcceptor::from(self.0.clone()).accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_or_no_key_is_refused_and_says_which_file() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let read = || Tls::read(&certificate, &key).unwrap_err().to_string();
        assert!(read().contains("cert.pem"), "{}", read());
        std::fs::write(&certificate, "no certificate").unwrap();
        assert!(read().contains("there is no certificate in"), "{}", read());
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, "no key").unwrap();
        assert!(read().contains("key.pem"), "{}", read());
        let other = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&key, other.serialize_pem()).unwrap();
        assert!(read().contains("cannot be used"), "{}", read());
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        assert!(Tls::read(&certificate, &key).is_ok());
    }
}
