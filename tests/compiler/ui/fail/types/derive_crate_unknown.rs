use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
#[key(crate = ::limits)]
pub struct Account {
    pub id: u32,
    pub kind: Kind,
}

#[derive(KeyPart)]
#[key(crate = ::limits)]
pub enum Kind {
    Guest,
    User(u32),
}

fn main() {}
