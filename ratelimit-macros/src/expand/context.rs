//! What the parts of one expansion share.

use crate::expand::output_type::OutputType;
use crate::expand::receiver::Receiver;
use crate::expand::runtime::Runtime;

pub(crate) struct Context {
    pub(crate) runtime: Runtime,
    pub(crate) receiver: Receiver,
    pub(crate) output: OutputType,
}
