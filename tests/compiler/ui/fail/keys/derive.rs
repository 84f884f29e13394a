use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
#[key(name = "a")]
union Bits {
    int: u32,
}

#[derive(KeyPart)]
#[key(skip_all)]
enum Account {
    #[key(rename = "guest")]
    Guest,
    User(#[key(skip)] u32),
}

#[derive(KeyPart)]
#[key(crate = limits)]
struct Relative(u32);

#[derive(KeyPart)]
#[key(crate)]
struct WithoutPath(u32);

fn main() {}
