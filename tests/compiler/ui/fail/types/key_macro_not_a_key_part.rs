use ratelimit_runtime::key;

fn main() {
    let price = 1.5;
    let _ = key!("item:<price>");
}
