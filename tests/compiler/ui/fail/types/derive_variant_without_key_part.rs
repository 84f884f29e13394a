use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
enum Account {
    Guest,
    User { id: u32, balance: f64 },
}

fn main() {}
