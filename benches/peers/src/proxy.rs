//! [`start`]: a proxy that delays what it passes on, each way: a server at a distance, where the
//! kernel offers no such thing.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// How long bytes are on their way, one way. Timers and threads add some 0.1 ms to it.
const DELAY: Duration = Duration::from_micros(200);

/// Listens on a free port, which is returned, and passes on each connection to `to`. A thread reads
/// and another one writes, each way, so that they sleep and do not take the time of others.
pub fn start(to: u16) -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming() {
            if let Err(error) = client
                .map_err(Failure::from)
                .and_then(|client| pass_on(&client, to))
            {
                eprintln!("the delaying proxy: {error}");
            }
        }
    });
    Ok(port)
}

fn pass_on(client: &TcpStream, to: u16) -> Result<(), Failure> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, to))?;
    for (from, to) in [(client, &server), (&server, client)] {
        to.set_nodelay(true)?;
        delay(from.try_clone()?, to.try_clone()?);
    }
    Ok(())
}

/// Passes on all bytes, each [`DELAY`] after it was read, until one side ends.
fn delay(mut from: TcpStream, mut to: TcpStream) {
    let (read, passed) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if read
                .send((Instant::now() + DELAY, bytes[..length].to_vec()))
                .is_err()
            {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, bytes) in passed {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // Whoever is at the other end may be gone already.
        let _ = to.shutdown(Shutdown::Write);
    });
}
