#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ratelimit_macros_as_library::fuzzing::attribute(data));
