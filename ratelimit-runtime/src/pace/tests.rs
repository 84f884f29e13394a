#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::future::Future;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

use super::{CALLERS_RETURN, READY_TASKS_RUN, REPLIES_ARRIVE, SOCKETS_ARE_READ};

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a task on both kinds of runtime. Of several worker threads, each counts turns of its own.
fn on_each_runtime<F: Future<Output = ()> + Send + 'static>(task: fn() -> F) {
    let one_worker = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    for runtime in [current_thread(), one_worker] {
        runtime.block_on(async { tokio::spawn(task()).await.unwrap() });
        runtime.shutdown_background();
    }
}

/// The far end of a connection, and the near one once more, without its runtime.
struct Far(std::net::TcpStream, std::net::TcpStream);

impl Far {
    /// Sends a reply, and returns when it has arrived, for which a busy system takes its time.
    fn reply(&mut self) {
        self.0.write_all(b"!").unwrap();
        while self.1.peek(&mut [0]).is_err() {
            std::hint::spin_loop();
        }
    }
}

/// Both ends of a connection.
async fn connection() -> (TcpStream, Far) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await;
    let far = listener.accept().await.unwrap().0.into_std().unwrap();
    far.set_nonblocking(false).unwrap();
    let near = near.unwrap().into_std().unwrap();
    let again = near.try_clone().unwrap();
    (TcpStream::from_std(near).unwrap(), Far(far, again))
}

/// A driver that reads a reply and hands it to the task that has asked, which notes it.
async fn driven() -> (Far, Arc<AtomicBool>, Arc<AtomicBool>) {
    let (mut near, far) = connection().await;
    let (is_read, is_answered) = (Arc::default(), Arc::default());
    let (reply, asked) = oneshot::channel();
    let (read, answered) = (Arc::clone(&is_read), Arc::clone(&is_answered));
    tokio::spawn(async move {
        near.read_u8().await.unwrap();
        AtomicBool::store(&read, true, Ordering::Relaxed);
        reply.send(()).unwrap();
    });
    tokio::spawn(async move {
        asked.await.unwrap();
        AtomicBool::store(&answered, true, Ordering::Relaxed);
    });
    for _ in 0..8 {
        yield_now().await;
    }
    (far, is_read, is_answered)
}

async fn assert_read_within_two_turns() {
    let (mut far, is_read, _) = driven().await;
    far.reply();
    SOCKETS_ARE_READ.pass().await;
    assert!(is_read.load(Ordering::Relaxed));
}

#[test]
fn a_driver_reads_what_has_arrived_within_two_turns() {
    on_each_runtime(assert_read_within_two_turns);
}

/// The caller is no task of the runtime, and its thread drives the others only while it waits.
#[test]
fn a_driver_reads_within_two_turns_of_a_caller_that_the_runtime_blocks_on() {
    current_thread().block_on(assert_read_within_two_turns());
}

/// Nearly always: a scheduler of several threads keeps most of so many tasks in a common queue, at
/// which it looks by the time that its tasks take.
#[test]
fn a_reply_reaches_the_task_that_has_asked_within_four_turns_among_thousands_of_tasks() {
    on_each_runtime(|| async {
        for _ in 0..5_000 {
            tokio::spawn(async {
                loop {
                    yield_now().await;
                }
            });
        }
        let mut answered = 0;
        for _ in 0..9 {
            let (mut far, _, is_answered) = driven().await;
            far.reply();
            REPLIES_ARRIVE.pass().await;
            answered += u32::from(is_answered.load(Ordering::Relaxed));
        }
        assert!(answered > 4, "{answered} of 9");
    });
}

#[test]
fn callers_that_are_answered_ask_again_within_three_turns() {
    const CALLERS: usize = 100;
    on_each_runtime(|| async {
        let (call, asked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let answers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (answer, answered) = oneshot::channel();
                let (wake, woken) = oneshot::channel();
                let asked = Arc::clone(&asked);
                tokio::spawn(async move {
                    woken.await.unwrap();
                    asked.fetch_add(1, Ordering::Relaxed);
                });
                tokio::spawn(async move {
                    answered.await.unwrap();
                    wake.send(()).unwrap();
                });
                answer
            })
            .collect();
        let replied = Arc::clone(&call);
        tokio::spawn(async move {
            replied.notified().await;
            for answer in answers {
                answer.send(()).unwrap();
            }
        });
        yield_now().await;
        call.notify_one();
        CALLERS_RETURN.pass().await;
        assert_eq!(asked.load(Ordering::Relaxed), CALLERS);
    });
}

#[test]
fn a_call_is_on_its_way_after_one_turn() {
    on_each_runtime(|| async {
        let is_sent = Arc::new(AtomicBool::new(false));
        let sent = Arc::clone(&is_sent);
        tokio::spawn(async move { sent.store(true, Ordering::Relaxed) });
        READY_TASKS_RUN.pass().await;
        assert!(is_sent.load(Ordering::Relaxed));
    });
}
