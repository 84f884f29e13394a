#![no_main]

use ratelimit_fuzz::allocated_most;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // What a server says of a length takes no memory before its bytes come.
    let most = allocated_most(|| ratelimit_runtime::fuzzing::read_resp(data));
    assert!(most <= 256 * data.len() + 64 * 1024, "{most} bytes for {}", data.len());
    ratelimit_runtime::fuzzing::resp(data);
});
