use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
struct Account {
    id: u32,
    #[key(skip)]
    note: String,
}

fn main() {}
