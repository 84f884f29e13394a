use ratelimit_runtime::rate_limit;

#[rate_limit(window = "60s", max = 3)]
pub async fn serve() -> ! {
    loop {}
}

fn main() {}
