use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! limited {
    ($name:ident, $key:literal) => {
        #[rate_limit(key = $key, window = "60s", max = 3)]
        async fn $name(email: &str) -> Result<(), RateLimitError> {
            let _ = email;
            Ok(())
        }
    };
}

limited!(send, "<emial>");

fn main() {
    let _ = send("a");
}
