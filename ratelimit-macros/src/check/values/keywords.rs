//! Arguments whose value is one of a few keywords. One reader for all, so that each error lists the
//! keywords or suggests the one that was meant, also by its name in other limiters.

use syn::LitStr;

use crate::literal::as_str;
use crate::parse::arguments::Argument;
use crate::suggest::nearest;

/// The keywords of an argument, and how messages speak of them.
pub(crate) struct Keywords<T: 'static> {
    pub(crate) argument: &'static str,
    pub(crate) noun: &'static str,
    /// Each keyword, with its value.
    pub(crate) values: &'static [(&'static str, T)],
    /// Words of other limiters for a keyword, in lower case without punctuation.
    pub(crate) synonyms: &'static [(&'static str, &'static [&'static str])],
    /// Other values that may stand in place of a keyword.
    pub(crate) or: Option<&'static str>,
}

impl<T: Copy> Keywords<T> {
    pub(crate) fn read(&self, argument: &Argument) -> Result<T, String> {
        let Self {
            argument: name,
            noun,
            ..
        } = self;
        let text = as_str(&argument.value).map(LitStr::value);
        if let Some((_, value)) = self
            .values
            .iter()
            .find(|(keyword, _)| text.as_deref() == Some(keyword))
        {
            return Ok(*value);
        }
        let advice = self.advice();
        Err(match &text {
            None => format!("`{name}` is a string: write {advice}"),
            Some(other) => match self.meant(other) {
                Some(meant) => format!("unknown {noun} \"{other}\": did you mean \"{meant}\"?"),
                None => format!("unknown {noun} \"{other}\": write {advice}"),
            },
        })
    }

    /// The list of valid values: `"a", "b" or "c"`.
    pub(crate) fn advice(&self) -> String {
        let mut quoted: Vec<_> = self
            .values
            .iter()
            .map(|(keyword, _)| format!("\"{keyword}\""))
            .collect();
        if let Some(or) = self.or {
            return format!("{}, or {or}", quoted.join(", "));
        }
        let last = quoted.pop().unwrap_or_default();
        format!("{} or {last}", quoted.join(", "))
    }

    fn meant(&self, other: &str) -> Option<&'static str> {
        let plain = |text: &str| {
            text.chars()
                .filter(|c| c.is_alphanumeric())
                .collect::<String>()
                .to_lowercase()
        };
        let keywords = || self.values.iter().map(|(keyword, _)| *keyword);
        let meant = self
            .synonyms
            .iter()
            .find(|(_, synonyms)| synonyms.contains(&plain(other).as_str()));
        meant
            .map(|(keyword, _)| *keyword)
            .or_else(|| keywords().find(|keyword| plain(keyword) == plain(other)))
            .or_else(|| nearest(other, keywords()))
    }
}

#[cfg(test)]
impl<T> Keywords<T> {
    /// Every synonym stands for a keyword, and is spelled so that it can match.
    pub(crate) fn assert_synonyms_are_sound(&self) {
        for (meant, synonyms) in self.synonyms {
            assert!(
                self.values.iter().any(|(keyword, _)| keyword == meant),
                "{meant}"
            );
            let plain = |synonym: &&str| {
                synonym
                    .chars()
                    .all(|c| c.is_alphanumeric() && !c.is_uppercase())
            };
            assert!(synonyms.iter().all(plain), "{synonyms:?}");
        }
    }
}
