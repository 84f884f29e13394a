use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
struct Account {
    id: u32,
    balance: f64,
}

fn main() {}
