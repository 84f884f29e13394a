//! What a fault does to callers, and how that is put on record.
//!
//! A *case* is an async function that starts servers of its own, keeps a [`Load`] on them, brings a
//! fault about, and gives a [`Row`] of the table (or several):
//!
//! ```ignore
//! pub(crate) async fn killed_and_back_empty() -> Row {
//!     let mut server = RedisServer::start();
//!     let mut load = Load::on(&server.url()).await;      // a limiter per policy, with callers who never stop
//!     load.fault();                                      // from now on
//!     server.stop();
//!     load.go_on(Duration::from_secs(1)).await;
//!     load.store_forgets();                              // logs begin anew
//!     server.restart();
//!     load.healed();                                     // from now on
//!     load.recover(Duration::from_secs(2)).await;        // fails if it takes longer
//!     let account = load.end().await;                    // checks all that always holds
//!     nothing_is_left_on(&server);
//!     account.row("killed, started again empty")
//! }
//! ```
//!
//! [`Load::end`] holds every call to its timeout, the store to `max` in every window, every policy
//! to its promise, and the limiters to leaving no task behind. What is special to a fault the case
//! asserts itself, on the [`Account`].
//!
//! Cases run at the same time, in a thread and on a runtime of their own, so they may block. A case
//! that burns the processor is [`alone`](Case::alone). Cases are listed in `main.rs`.

#![allow(dead_code, unused_imports, reason = "what cases may use")]

mod account;
mod left;
mod load;
mod log;
mod row;
mod runner;
mod witness;

pub(crate) use self::account::{Account, Answered, Call, most_in_a_window};
pub(crate) use self::left::nothing_is_left_on;
pub(crate) use self::load::{CALLERS, LIMIT, Load, POLICIES, TIMEOUT};
pub(crate) use self::log::Logged;
pub(crate) use self::row::Row;
pub(crate) use self::runner::{Case, main};
pub(crate) use crate::support::random::Random;
