use ratelimit_runtime::rate_limit;

#[rate_limit(key = "<email>", policy = "login", shadow)]
async fn send(email: &str) {
    let _ = email;
}

fn main() {
    let _ = send("a");
}
