//! Our directory in the directory layer.

use std::path::PathBuf;

use foundationdb::{
    Database, FdbBindingError,
    directory::{Directory, DirectoryError, DirectoryLayer, DirectoryOutput},
    tuple::hca::HcaError,
};

use super::{error, prefix::Prefix};
use crate::store::OpenError;

const ROOT: &str = "cadre";
/// Marks the directory as ours.
const LAYER: &[u8] = b"cadre-cluster";

/// The prefix of a cluster's directory, which is made if it is not there. Two nodes may do so at once: one of
/// them conflicts, tries again, and finds it.
pub(super) async fn open(database: &Database, cluster: &str) -> Result<Prefix, OpenError> {
    let layer = DirectoryLayer::default();
    let path = [ROOT.to_owned(), cluster.to_owned()];
    let (layer, path) = (&layer, &path);
    let directory = database
        .run(|transaction, _| async move {
            layer.create_or_open(&transaction, path, None, Some(LAYER)).await.map_err(retryable)
        })
        .await;
    match directory {
        Ok(DirectoryOutput::DirectorySubspace(directory)) => Ok(Prefix::new(directory.bytes())),
        Ok(DirectoryOutput::DirectoryPartition(_)) => Err(foreign(path, "it is a partition".into())),
        Err(failure) => match (failure.get_fdb_error(), failure) {
            (Some(failure), _) => Err(error::open(failure)),
            (None, FdbBindingError::DirectoryError(failure)) => Err(foreign(path, explain(&failure))),
            (None, failure) => Err(foreign(path, failure.to_string())),
        },
    }
}

/// Brings out the cluster's answer, so that it is tried again when that helps.
fn retryable(error: DirectoryError) -> FdbBindingError {
    match error {
        DirectoryError::FdbError(error) | DirectoryError::HcaError(HcaError::FdbError(error)) => error.into(),
        error => error.into(),
    }
}

fn explain(error: &DirectoryError) -> String {
    match error {
        DirectoryError::IncompatibleLayer => "another program made this directory".into(),
        DirectoryError::Version(reason) => reason.clone(),
        DirectoryError::PrefixNotEmpty | DirectoryError::DirectoryPrefixInUse => {
            "the database holds keys that are in no directory; use one of its own".into()
        }
        other => format!("the directory layer answers {other:?}"),
    }
}

fn foreign(path: &[String], reason: String) -> OpenError {
    OpenError::Foreign { path: path.iter().collect::<PathBuf>(), reason }
}
