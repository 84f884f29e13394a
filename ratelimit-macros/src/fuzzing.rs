//! What a fuzzer feeds with bytes, one function each. A crate of macros exports nothing else, so
//! the fuzzer builds these sources as a crate of its own; here are the tests that replay what it
//! has found. Each panics if something that holds for all input does not hold for this one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is what is looked for")]
#![allow(unreachable_pub, reason = "in the fuzzer, this crate is a library")]
#![allow(clippy::print_stdout, reason = "shown if it fails")]

use proc_macro2::{Span, TokenStream};
use quote::ToTokens as _;
use syn::LitStr;

use crate::check::rule::settings;
use crate::diagnostics::Diagnostics;
use crate::parse::placeholder::{Placeholder, Step};
use crate::parse::template::{Piece, Template};
use crate::{duration, stages};

/// A template, in its normal spelling the same again.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(pieces) = pieces(text) {
        let normal: String = pieces.iter().map(spelled).collect();
        let again = self::pieces(&normal).expect("its normal spelling is a template");
        assert_eq!(again.iter().map(spelled).collect::<String>(), normal, "{text:?}");
    }
}

/// The pieces of a faultless template.
fn pieces(text: &str) -> Option<Vec<Piece<Placeholder>>> {
    let mut diagnostics = Diagnostics::default();
    let template = Template::parse(&LitStr::new(text, Span::call_site()), &mut diagnostics);
    assert_eq!(template.faultless, diagnostics.finish(Some(())).is_ok(), "{text:?}");
    template.faultless.then_some(template.pieces)
}

fn spelled(piece: &Piece<Placeholder>) -> String {
    let Placeholder { root, steps, .. } = match piece {
        Piece::Placeholder(placeholder) => placeholder,
        Piece::Text(text) => {
            return text.chars().map(|c| if "<>{}".contains(c) { format!("{c}{c}") } else { c.to_string() }).collect();
        }
    };
    let step = |step: &Step| match step {
        Step::Field(member) => format!(".{}", member.to_token_stream()),
        Step::Call(name) => format!(".{name}()"),
    };
    format!("<{root}{}>", steps.iter().map(step).collect::<String>())
}

/// A duration, within its bounds and as long as it says.
pub fn duration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for (bounds, longest) in
        [(&duration::WINDOW, 366 * 86_400_000_000), (&settings::WAIT, 3_600_000_000), (&settings::TIMEOUT, 60_000_000)]
    {
        if let Ok(micros) = duration::parse(text, bounds) {
            assert!((1_000..=longest).contains(&micros), "{text:?}: {micros}");
            assert_eq!(duration::parse(&format!("{micros}us"), bounds), Ok(micros), "{text:?}");
        }
    }
}

/// The three macros, on whatever tokens: a line for what is in the brackets, then the item.
pub fn attribute(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The compiler has a limit of its own.
    if text.matches(['(', '[', '{', '<', '&', '!', '-', '*', '=', '|', '.']).count() > 256 {
        return;
    }
    let (arguments, item) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(arguments) = arguments.parse::<TokenStream>() else { return };
    let _ = stages::key(arguments.clone());
    let Ok(item) = item.parse::<TokenStream>() else { return };
    let expanded = stages::rate_limit(arguments, item.clone());
    let is_function = syn::parse2::<syn::ItemFn>(item.clone()).is_ok();
    if is_function {
        syn::parse2::<syn::File>(expanded.clone()).unwrap_or_else(|error| panic!("{error}: {expanded}"));
    }
    let _ = stages::key_part(item);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    fn replay(target: &str, run: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        let mut files = 0;
        for file in fs::read_dir(&corpus).expect("a corpus") {
            let file = file.unwrap().path();
            println!("{}", file.display());
            run(&fs::read(file).unwrap());
            files += 1;
        }
        assert!(files > 10, "{target} has a corpus of {files}");
    }

    #[test]
    fn what_the_fuzzer_has_kept() {
        replay("template", super::template);
        replay("duration", super::duration);
        // As much room as the compiler gives to a macro, which a test has not.
        let attributes = std::thread::Builder::new().stack_size(64 << 20);
        attributes.spawn(|| replay("attribute", super::attribute)).unwrap().join().unwrap();
    }
}
