//! How an embedded store is set up.

use std::path::PathBuf;

/// Whether a confirmed commit is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// A commit is answered after its group was synced to the disk.
    #[default]
    Durable,
    /// A commit is answered once the operating system has it: it survives a crash of the process, not one of
    /// the machine. For tests and for measuring what syncing costs.
    Relaxed,
}

/// The settings of an embedded store.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// The data folder. Made when missing.
    pub path: PathBuf,
    /// How much is kept in memory and log before it moves into the engine. Twice as much may be in memory
    /// while it moves; commits wait beyond that.
    pub checkpoint_bytes: usize,
    /// The size of one log file. They are reused, so the folder keeps a few of them.
    pub segment_bytes: usize,
    /// Disk space set aside, given up when the disk is full so that a checkpoint can still free the log. From
    /// then until there is room for it again, only clears are accepted. As much as a checkpoint is a good
    /// size; zero for none.
    pub reserve_bytes: u64,
    /// How much memory the commits that wait for the committer may take together; more of them wait outside.
    pub queue_bytes: usize,
    /// The most transactions that share one sync.
    pub group_transactions_max: usize,
    /// About the most bytes that share one sync; a single transaction may be larger.
    pub group_bytes_max: usize,
    /// Memory for pages of the engine.
    pub cache_bytes: usize,
    /// Whether a confirmed commit is on disk.
    pub sync: SyncMode,
}

impl EmbeddedConfig {
    /// The defaults, for the data folder at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            checkpoint_bytes: 64 << 20,
            segment_bytes: 16 << 20,
            reserve_bytes: 64 << 20,
            queue_bytes: 64 << 20,
            // Two bytes of a stamp count the transactions of one group.
            group_transactions_max: 4096,
            group_bytes_max: 4 << 20,
            cache_bytes: 256 << 20,
            sync: SyncMode::Durable,
        }
    }

    /// Brings what would not work into the range that does.
    pub(super) fn normalized(mut self) -> Self {
        self.checkpoint_bytes = self.checkpoint_bytes.max(16 << 10);
        self.segment_bytes = self.segment_bytes.clamp(64 << 10, 1 << 30);
        self.queue_bytes = self.queue_bytes.clamp(1 << 20, 1 << 30);
        self.group_transactions_max = self.group_transactions_max.clamp(1, usize::from(u16::MAX));
        self.group_bytes_max = self.group_bytes_max.clamp(64 << 10, 256 << 20);
        self
    }

    pub(super) fn is_durable(&self) -> bool {
        self.sync == SyncMode::Durable
    }
}
