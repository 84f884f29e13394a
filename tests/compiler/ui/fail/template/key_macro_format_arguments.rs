use ratelimit_runtime::key;

fn main() {
    let email = "a";
    let _ = key!("{}", email);
}
