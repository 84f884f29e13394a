use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
#[key(crate)]
struct Account(u32);

fn main() {}
