//! Items that nobody would write: whatever the attribute is put on, it does not panic, the item is
//! still there, and what is wrong is said in this crate's words. `RATELIMIT_GENERATED=100000` makes
//! more of them.

use std::env;

use proc_macro2::{Group, TokenStream, TokenTree};

use crate::stages;

const ATTRIBUTES: [&str; 14] = [
    r#"key = "<email>", window = "60s", max = 3"#,
    r#"key = "<user.id>:<self.name()>", window = "1h 30m", max = 3, count = "err", block = "10m""#,
    r#"key = (email, ip), window = "1s", max = quota.min(3), cost = email.len(), when = !email.is_empty()"#,
    r#"limits = ["3/60s", "20/1d"], name = "mail", on_refused = |error| Err(error)"#,
    r#"policy = "login", limiter = self.limiter, timeout = "50ms", on_unavailable = "deny""#,
    r#"window = "60s", max = 1, algorithm = "token_bucket", burst = 10, wait = "2s", shadow = dry"#,
    r#"window = "60s", max = 1, shadow, crate = ::other"#,
    r#"key = format!("{email}:{}", f(ip)?), window = "60s", max = { 3 }"#,
    r#"key = ("<email>", ip), window = ("60s"), max = -(3)"#,
    r#"key = mine!(email => return 1), window = "60s", max = 1"#,
    "key = { email }, window = 60s, max = 3u32",
    r#"kye = "<emial>", windw = "6x", mx = 0"#,
    r#"key = "<a.0.b()>>{{<<{r#type}", window = "60s", max = 1, count = |outcome| outcome.is_ok()"#,
    "",
];

const ITEMS: [&str; 14] = [
    "async fn target(email: &str, ip: IpAddr) -> Result<(), E> { let a = b(email)?; Ok(a) }",
    "/// Documented.\n pub(crate) async fn target(&self, user: User, quota: i32) -> Option<u8> { #![allow(x)] None }",
    "async fn target<'a, T: Id, const N: usize>(self: Arc<Self>, (a, mut b): (T, [u8; N]), dry: bool) -> impl X + use<'a> where T: Y { mac! { x } }",
    r#"#[inline] #[rate_limit(window = "1s", max = 1)] #[rate_limit] async fn target(r#type: u8) -> R { email. }"#,
    "fn target(email: &str) -> impl Future<Output = R> + Send { let email = email.to_owned(); async move { email } }",
    "fn target(email: &str) -> BoxFuture<'_, R> { if fast { return Box::pin(async move { 1 }); } Box::pin(async move { 2 }) }",
    "fn target(email: &str) -> Pin<Box<dyn Future<Output = R>>> { retry(async move { charge()? }).boxed().map(f) }",
    "fn target<'life0, 'async_trait>(&'life0 self, email: &'life0 str) -> Pin<Box<dyn Future<Output = R> + 'async_trait>> { Box::pin(async move { if let Some(__ret) = None::<R> { return __ret; } let __self = self; let email = email; let __ret: R = { #![a] __self.f(email) }; __ret }) }",
    "fn target<'async_trait>() -> X { Box::pin(async move { let _: () = { f() }; }) }",
    "fn target() { let body = async { 1 }; Builder::new().block_on(body) }",
    "async fn target() -> ! { loop {} }",
    "unsafe extern \"C\" fn target(#[cfg(x)] email: u8, ...) {}",
    "async fn target(email: &str) -> R { { let __ratelimit_run = f(); } body }",
    "impl X { async fn target(&self) {} }",
];

/// Marsaglia's xorshift: the same items on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (end.max(1) as u64)).unwrap()
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// `tokens` with one of them, at some depth, dropped, doubled, swapped with the next or
    /// replaced by one of `others`.
    fn broken(&mut self, tokens: TokenStream, others: &[TokenTree]) -> TokenStream {
        let mut trees: Vec<TokenTree> = tokens.into_iter().collect();
        if trees.is_empty() {
            return TokenStream::new();
        }
        let at = self.below(trees.len());
        if let TokenTree::Group(group) = &trees[at]
            && self.below(5) > 0
        {
            let inner = self.broken(group.stream(), others);
            trees[at] = TokenTree::Group(Group::new(group.delimiter(), inner));
            return trees.into_iter().collect();
        }
        match self.below(4) {
            0 => drop(trees.remove(at)),
            1 => trees.insert(at, trees[at].clone()),
            2 if at + 1 < trees.len() => trees.swap(at, at + 1),
            _ if others.is_empty() => {}
            _ => trees[at] = others[self.below(others.len())].clone(),
        }
        trees.into_iter().collect()
    }
}

/// All tokens of `tokens`, at every depth.
fn flat(tokens: TokenStream, all: &mut Vec<TokenTree>) {
    for tree in tokens {
        if let TokenTree::Group(group) = &tree {
            flat(group.stream(), all);
        }
        all.push(tree);
    }
}

/// Whether these are not the words of this crate, but of the parser it uses.
fn is_borrowed(message: &str) -> bool {
    let parser = ["expected ", "unexpected ", "cannot ", "unsupported ", "lex error", "not supported"];
    let ours = ["expected `,` before", "expected an argument", "unexpected `", "expected the function's body"];
    parser.iter().any(|start| message.starts_with(start))
        && !ours.iter().any(|start| message.starts_with(start))
        && !message.contains(", in the value of ")
}

#[test]
fn whatever_it_is_put_on_the_item_stays_and_errors_are_ours() {
    let rounds = env::var("RATELIMIT_GENERATED").ok().and_then(|text| text.parse().ok()).unwrap_or(4_000);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut everything = Vec::new();
    for text in ATTRIBUTES.iter().chain(&ITEMS) {
        flat(text.parse().unwrap(), &mut everything);
    }
    let (mut expanded, mut refused) = (0, 0);
    for round in 0..rounds {
        let mut arguments: TokenStream = random.one(&ATTRIBUTES).parse().unwrap();
        let mut item: TokenStream = random.one(&ITEMS).parse().unwrap();
        for _ in 0..random.below(3) {
            arguments = random.broken(arguments, &everything);
        }
        for _ in 0..random.below(3) {
            item = random.broken(item, &everything);
        }
        let what = || format!("round {round}: #[rate_limit({arguments})] {item}");
        let actual = stages::rate_limit(arguments.clone(), item.clone());
        let mut names = Vec::new();
        flat(actual.clone(), &mut names);
        let is_named = |trees: &[TokenTree]| trees.iter().any(|tree| tree.to_string() == "target");
        let mut given = Vec::new();
        flat(item.clone(), &mut given);
        assert!(!is_named(&given) || is_named(&names), "the item is lost in {}", what());

        let is_function = syn::parse2::<syn::ImplItemFn>(item.clone()).is_ok();
        if !is_function {
            continue;
        }
        let file: syn::Result<syn::File> = syn::parse2(quote::quote!(impl X { #actual }));
        let messages = match file {
            Ok(_) if !actual.to_string().contains("compile_error") => {
                expanded += 1;
                continue;
            }
            _ => compile_errors(&actual),
        };
        refused += 1;
        assert!(!messages.is_empty(), "what is not an error is a function: {}\n{actual}", what());
        for message in messages {
            assert!(!is_borrowed(&message), "{message}\n{}", what());
        }
    }
    assert!(expanded > rounds / 100, "only {expanded} of {rounds} are right");
    assert!(refused > rounds / 20, "only {refused} of {rounds} are wrong");
}

/// The messages of the `compile_error!`s among `tokens`.
fn compile_errors(tokens: &TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut after_name = 0;
    for tree in tokens.clone() {
        if let TokenTree::Group(group) = &tree
            && after_name == 2
            && let Ok(message) = syn::parse2::<syn::LitStr>(group.stream())
        {
            found.push(message.value());
        }
        after_name = match &tree {
            TokenTree::Ident(word) if word == "compile_error" => 1,
            TokenTree::Punct(punct) if punct.as_char() == '!' && after_name == 1 => 2,
            _ => 0,
        };
    }
    found
}
