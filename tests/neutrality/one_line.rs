//! Bodies on one line, in every shape of function, under every kind of guard: the source of a
//! crate.

/// What a function returns, and its body. `a` is a `&str`, `n` a `u8`.
const BODIES: &[(&str, &str)] = &[
    // Macros
    ("String", r#"format!("{a}")"#),
    ("Vec<u8>", "vec![n]"),
    ("bool", "matches!(n, 1)"),
    ("u8", "same!(n)"),
    ("u8", "same! { n }"),
    ("u8", "nothing! { n } n"),
    ("u8", "items! { n }"),
    ("u8", "block! { n }"),
    ("u8", "leaves!(n)"),
    ("u8", r#"panic!("{a}")"#),
    ("u8", "unreachable!()"),
    ("()", r#"println!("{a}")"#),
    ("()", "assert!(n == 0)"),
    ("u32", "line!()"),
    ("u8", "dbg!(n)"),
    // Blocks
    ("u8", "{ n }"),
    ("u8", "{ let b = n; b }"),
    ("u8", "unsafe { raw(n) }"),
    ("u8", "const { 1 }"),
    ("u8", "'a: { if n == 0 { break 'a 1; } n }"),
    ("u8", "async move { n }.await"),
    ("u8", "(async || n)().await"),
    ("u8", "(|| n)()"),
    ("u8", "loop { break n; }"),
    ("()", "while n == 0 {}"),
    ("()", "for _ in 0..n { other().await; }"),
    ("u8", "if n == 0 { 1 } else { 2 }"),
    ("()", "if n == 0 { other().await }"),
    ("u8", "if let Some(b) = Some(n) { b } else { 0 }"),
    ("u8", "match n { 0 => 1, _ => 2 }"),
    ("u8", "match n { 0 => { 1 } _ => { format!(\"{a}\"); 2 } }"),
    // Parentheses
    ("u8", "(n)"),
    ("u8", "(n + 1)"),
    ("(u8, u8)", "(n, n)"),
    ("()", "()"),
    ("u8", "{ (n) }"),
    ("u8", "return (n);"),
    ("u8", "let b = (n); b"),
    // Ways out
    ("u8", "return n"),
    ("u8", "return n;"),
    ("u8", "return { n };"),
    ("String", r#"return format!("{a}");"#),
    ("()", "return"),
    ("()", "return;"),
    ("u8", "if n == 0 { return 1; } else { return 2; }"),
    ("u8", "match n { 0 => return 1, _ => return 2 }"),
    ("Outcome<u8>", "Ok(n)"),
    ("Outcome<u8>", "return Ok(n);"),
    ("Outcome<u8>", "Ok(fails()?)"),
    ("Outcome<u8>", "fails()"),
    ("Outcome<()>", "fails()?; Ok(())"),
    (
        "Outcome<u8>",
        "match fails() { Ok(b) => Ok(b), Err(error) => Err(error) }",
    ),
    (
        "Outcome<u8>",
        "if let Ok(b) = fails() { Ok(b) } else { fails() }",
    ),
    (
        "Outcome<u8>",
        "match fails() { Ok(b) => Ok(b), Err(error) => return Err(error) }",
    ),
    (
        "Option<u8>",
        "match Some(n) { Some(b) => Some(b), None => None }",
    ),
    (
        "Option<u8>",
        "if let Some(b) = Some(n) { Some(b) } else { None }",
    ),
    ("Result<u8, Large>", "Ok(n)"),
    ("Result<u8, Large>", "fails_largely()"),
    // Values
    ("u8", "n"),
    ("i8", "-1"),
    ("bool", "!(n == 0)"),
    ("[u8; 1]", "[n]"),
    ("Named", "Named { n }"),
    ("Named", "Named { n: n }"),
    ("Range<u8>", "0..n"),
    ("u8", "n.clone()"),
    ("String", "a.to_owned()"),
    ("String", "let b = a.to_owned(); b.clone()"),
    ("Ready<u8>", "ready(n)"),
    ("Ready<u8>", "let b = ready(n); b"),
    ("Pin<Box<Ready<u8>>>", "Box::pin(ready(n))"),
    ("u8", "ready(n).await"),
    ("()", "other().await"),
    ("usize", "text().lock().map_or(0, |text| text.len())"),
    (
        "usize",
        "let text = text(); text.lock().map_or(0, |text| text.len())",
    ),
    // Statements
    ("()", ""),
    ("()", ";"),
    ("u8", "n; n"),
    ("()", "a.len();"),
    ("()", "wanted();"),
    ("u8", "let b = n; b"),
    ("u8", "let n = n; n"),
    ("()", "let b = n;"),
    ("()", "drop(n)"),
    ("u8", "let Some(b) = Some(n) else { return 0 }; b"),
    ("u8", "const B: u8 = 1; B"),
    ("u8", "use std::fmt::Write as _; n"),
    ("u8", "#[cfg(any())] let b = 1; n"),
    (
        "String",
        r#"#[cfg(any())] return a.to_owned(); format!("{a}")"#,
    ),
    ("u8", "#[allow(unused_variables)] let b = 1; n"),
    ("u8", "#![allow(clippy::all)] n"),
];

/// The attributes, under a word for them.
const ATTRIBUTES: &[(&str, &[&str])] = &[
    (
        "plain",
        &[r#"window = "60s", max = 1, on_refused = refused"#],
    ),
    (
        "stacked",
        &[
            r#"window = "60s", max = 1, when = wanted() == 1, on_refused = refused"#,
            r#"window = "60s", max = 9"#,
        ],
    ),
    (
        "counted",
        &[r#"window = "60s", max = 1, count = counts, on_refused = refused"#],
    ),
];

/// What stands around a body, under a word for it, and which attributes it gets.
const SHAPES: &[(&str, &str, &[&str])] = &[
    (
        "async fn",
        "pub async fn NAME(a: &str, n: u8) -> RETURNS { BODY }",
        &["plain", "stacked", "counted"],
    ),
    (
        "future",
        "pub fn NAME(a: &str, n: u8) -> impl Future<Output = RETURNS> + use<'_> { async move { BODY } }",
        &["plain", "counted"],
    ),
    (
        "boxed",
        "pub fn NAME<'a>(a: &'a str, n: u8) -> Pin<Box<dyn Future<Output = RETURNS> + 'a>> { Box::pin(async move { BODY }) }",
        &["counted"],
    ),
    (
        "async_trait",
        "async fn NAME(&self, a: &str, n: u8) -> RETURNS { BODY }",
        &["plain", "counted"],
    ),
];

/// The source, and what each of its lines is, from the first on.
pub(super) fn source() -> (String, Vec<String>) {
    let mut lines: Vec<_> = PREAMBLE
        .lines()
        .map(|line| (line.to_owned(), line.to_owned()))
        .collect();
    for (shape, function, kinds) in SHAPES {
        let method = *shape == "async_trait";
        if method {
            lines.push((
                "#[async_trait::async_trait] pub trait Methods {".to_owned(),
                "trait".to_owned(),
            ));
        }
        for (kind, attributes) in ATTRIBUTES.iter().filter(|(kind, _)| kinds.contains(kind)) {
            for (returns, body) in BODIES {
                if *kind == "counted" && *returns == "()" || method && body.starts_with("#!") {
                    continue;
                }
                let what = format!("{kind} {shape}: {body}");
                for attribute in *attributes {
                    let attribute =
                        format!("#[cfg_attr(feature = \"limited\", rate_limit({attribute}))]");
                    lines.push((attribute, format!("attribute, {what}")));
                }
                let name = format!("f{}", lines.len());
                let function = function
                    .replace("NAME", &name)
                    .replace("RETURNS", returns)
                    .replace("BODY", body);
                lines.push((function, what));
            }
        }
    }
    lines.push(("}".to_owned(), "end".to_owned()));
    let (source, what): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
    (source.join("\n"), what)
}

const PREAMBLE: &str = r#"#![warn(
    warnings, unused, rust_2018_idioms, rust_2024_compatibility, let_underscore, keyword_idents, single_use_lifetimes,
    unused_qualifications, unreachable_pub, trivial_casts, unused_results, clippy::all, clippy::pedantic,
    clippy::nursery, clippy::restriction
)]
#![allow(clippy::implicit_return, clippy::unused_async)] // They are in differences.txt.
use std::future::{Future, Ready, ready};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Mutex;
use ratelimit_runtime::RateLimitError;
#[cfg(feature = "limited")]
use ratelimit_runtime::rate_limit;
pub type Outcome<T> = Result<T, RateLimitError>;
pub struct Named { pub n: u8 }
pub struct Large(pub [u8; 512]);
impl From<RateLimitError> for Large { fn from(_: RateLimitError) -> Self { Self([0; 512]) } }
pub fn refused<T>(_: RateLimitError) -> T { unimplemented!() }
pub fn counts<T>(_: &T) -> bool { true }
pub fn fails() -> Outcome<u8> { Ok(1) }
pub fn fails_largely() -> Result<u8, Large> { Ok(1) }
pub async fn other() {}
pub unsafe fn raw(n: u8) -> u8 { n }
pub fn text() -> Mutex<String> { Mutex::default() }
#[must_use] pub fn wanted() -> u8 { 1 }
#[macro_export] macro_rules! same { ($value:expr) => { $value } }
#[macro_export] macro_rules! nothing { ($($any:tt)*) => {} }
#[macro_export] macro_rules! items { ($value:expr) => { const B: u8 = 1; $value + B } }
#[macro_export] macro_rules! block { ($value:expr) => { { let b = $value; b } } }
#[macro_export] macro_rules! leaves { ($value:expr) => { return $value } }
"#;
