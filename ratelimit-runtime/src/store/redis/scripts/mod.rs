//! The scripts: questions as bytes, and replies as answers.
//!
//! A script is the files of one algorithm between `head.lua` and `tail.lua`, which all share; that
//! of stacks is made of the same files. Assembled, they are in `generated/`. [`Question`] writes a
//! question, [`call`] a call of several questions, and [`ScriptAnswer`] reads the reply.

mod answer;
#[cfg(test)]
mod assembly;
pub(crate) mod call;
mod question;
mod script;

pub(crate) use self::answer::{Reply, ScriptAnswer};
pub(crate) use self::question::{
    CallQuestion, Granted, KeyQuestion, Operation, Question, own_time,
};
pub(crate) use self::script::{Script, load_all};
