use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
#[key(rename = "account")]
struct Account(u32);

fn main() {}
