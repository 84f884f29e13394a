//! [`Ask`]: what permits need of a client.

use std::time::Instant;

use crate::error::StoreError;
use crate::store::redis::batcher::Verdicts;
use crate::store::redis::scripts::Question;

/// What answers questions: a client, or a test.
pub(crate) trait Ask: Send + Sync + 'static {
    /// Asks one question, or several on keys of one slot, which are charged all or none.
    fn ask(
        &self,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send;

    /// Another number after each new connection, whose server may have forgotten permits.
    fn epoch(&self) -> u64;
}
