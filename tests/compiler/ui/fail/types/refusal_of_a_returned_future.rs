use ratelimit_runtime::rate_limit;

#[rate_limit(window = "60s", max = 3)]
fn send() -> impl Future<Output = u32> {
    async move { 1 }
}

fn main() {
    let _ = send();
}
