use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
union Bits {
    int: u32,
    float: f32,
}

fn main() {}
