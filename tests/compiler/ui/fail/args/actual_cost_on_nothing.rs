use ratelimit_runtime::rate_limit;

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |()| email.len(), shadow)]
async fn send(email: &str) {
    let _ = email;
}

fn main() {
    let _ = send("a");
}
