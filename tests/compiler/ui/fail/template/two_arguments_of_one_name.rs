use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! limited {
    ($name:ident, $id:ident) => {
        #[rate_limit(key = "<id>", window = "60s", max = 3)]
        pub async fn $name($id: u32, id: u32) -> Result<(), RateLimitError> {
            let _ = ($id, id);
            Ok(())
        }
    };
}

limited!(send, id);

fn main() {}
