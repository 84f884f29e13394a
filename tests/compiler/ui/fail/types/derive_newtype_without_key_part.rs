use ratelimit_runtime::KeyPart;

struct Id;

#[derive(KeyPart)]
struct Account(Id);

fn main() {}
