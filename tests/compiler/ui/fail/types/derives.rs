use ratelimit_runtime::KeyPart;

struct Id;

#[derive(KeyPart)]
struct Newtype(Id);

#[derive(KeyPart)]
enum Fields {
    Guest,
    User { id: u32, balance: f64 },
}

fn main() {}
