use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
#[key(crate = limits)]
struct Account(u32);

fn main() {}
