//! [`HeaderKey`]: a header that a request has to have, as part of a key.

use std::fmt;
use std::marker::PhantomData;

use http::header::HeaderMap;

use crate::key::{KeyKind, KeyPart, KeyWriter};
use crate::response::KeyRejection;

/// The value of a header, as an extractor of axum, actix-web and poem, and as part of a key. A
/// request with two such headers is answered 400, and so is one without it, or 401 with
/// [`Responses::unauthorized`](crate::Responses::unauthorized): requests without the header must
/// not share one key.
///
/// A header says what the client claims. Until that is verified, limit by
/// [`ClientIp`](crate::ClientIp) too.
///
/// ```
/// use ratelimit_runtime::{HeaderKey, NamedHeader, RateLimitError, rate_limit};
///
/// struct ApiKey;
///
/// impl NamedHeader for ApiKey {
///     const NAME: &'static str = "x-api-key";
/// }
///
/// #[rate_limit(key = "<api_key>", window = "60s", max = 100)]
/// async fn search(api_key: HeaderKey<ApiKey>) -> Result<(), RateLimitError> {
///     Ok(())
/// }
/// # let _ = search;
/// ```
pub struct HeaderKey<N> {
    value: Vec<u8>,
    name: PhantomData<fn() -> N>,
}

/// A type that names the header of a [`HeaderKey`].
pub trait NamedHeader {
    /// The name of the header, in any case. One that no header can have does not compile:
    ///
    /// ```compile_fail,E0080
    /// use ratelimit_runtime::{HeaderKey, NamedHeader};
    ///
    /// struct ApiKey;
    ///
    /// impl NamedHeader for ApiKey {
    ///     const NAME: &'static str = "X API Key";
    /// }
    ///
    /// let _ = HeaderKey::<ApiKey>::of(&http::HeaderMap::new());
    /// ```
    const NAME: &'static str;
}

/// `true` if this can be the name of a header: a token, by RFC 9110.
const fn is_name(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let is_delimiter = matches!(
            byte,
            b'"' | b'(' | b')' | b',' | b'/' | b':'..=b'@' | b'['..=b']' | b'{' | b'}'
        );
        if !byte.is_ascii_graphic() || is_delimiter {
            return false;
        }
        rest = after;
    }
    !text.is_empty()
}

impl<N: NamedHeader> HeaderKey<N> {
    /// The header's value among the `headers` of a request, in any framework.
    ///
    /// # Errors
    ///
    /// If the header is missing, empty, or appears more than once.
    pub fn of(headers: &HeaderMap) -> Result<Self, KeyRejection> {
        let mut values = headers
            .get_all(N::NAME)
            .iter()
            .map(http::HeaderValue::as_bytes);
        Self::single(&mut values)
    }

    pub(super) fn single(values: &mut dyn Iterator<Item = &[u8]>) -> Result<Self, KeyRejection> {
        const {
            assert!(
                is_name(N::NAME),
                "`NamedHeader::NAME` is the name of a header, such as \"x-api-key\""
            );
        }
        // White space around a value is not part of it, which not every server removes.
        let value = values
            .next()
            .map(<[u8]>::trim_ascii)
            .filter(|value| !value.is_empty());
        let value = value.ok_or(KeyRejection::MissingHeader(N::NAME))?;
        if values.next().is_some() {
            return Err(KeyRejection::RepeatedHeader(N::NAME));
        }
        Ok(Self {
            value: value.to_vec(),
            name: PhantomData,
        })
    }
}

impl<N> HeaderKey<N> {
    /// The value as it was sent, without white space around it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.value
    }
}

#[diagnostic::do_not_recommend]
impl<N> KeyPart for HeaderKey<N> {
    const KIND: KeyKind = KeyKind::Text;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        self.value.write_key(key);
    }
}

impl<N> Clone for HeaderKey<N> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            name: PhantomData,
        }
    }
}

impl<N> fmt::Debug for HeaderKey<N> {
    /// Without the value, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderKey").finish_non_exhaustive()
    }
}
