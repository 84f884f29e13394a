use ratelimit_runtime::key;

fn main() {
    let email = "a";
    let empty = key!();
    let empty_template = key!("");
    let format_arguments = key!("{}", email);
    let never_closed = key!("<email");
    let not_a_literal = key!(email);
    let relative_crate = key!(crate = limits, "<email>");
    let several = key!("<>:<a b>");
}
