//! [`KeyPart`]: what may stand in a key.

use std::borrow::Cow;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use super::KeyWriter;

/// A value that a key can be made of.
///
/// For structs, newtypes and enums: `#[derive(KeyPart)]`. By hand:
///
/// ```
/// use ratelimit_runtime::{Key, KeyPart, KeyWriter};
///
/// struct Tenant { region: String, id: u64 }
///
/// impl KeyPart for Tenant {
///     fn write_key(&self, key: &mut KeyWriter<'_>) {
///         key.str(&self.region);
///         key.part(&self.id);
///     }
/// }
///
/// let tenant = Tenant { region: "eu".into(), id: 7 };
/// assert_eq!(Key::of(&tenant).as_bytes(), b"<eu,7>");
/// ```
///
/// # What counts as the same value
///
/// Values of one type are told apart, all of them, but for these: an IP address stands for its subscriber (IPv4 in
/// its IPv6 disguises is IPv4, an IPv6 address is its /64; [`ExactIp`](crate::ExactIp) keeps the address). Between
/// types, what reads the same is the same: `7_u8`, `7_u64` and `"7"`; `"a"`, `String::from("a")` and `b"a"`;
/// a reference or a smart pointer and what it points to. Floating-point numbers are not keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a rate limit key",
    label = "not a `KeyPart`",
    note = "name a field or a method that gives a string, an integer, a `bool`, an `IpAddr`, a `Uuid` (feature `uuid`) or a tuple of such: `<user.id>`, `<user.name()>`",
    note = "for a socket address write `<addr.ip()>`: its port changes with every connection",
    note = "for your own type add `#[derive(KeyPart)]`; for one that only implements `Display` use an expression: `key = value.to_string()`"
)]
pub trait KeyPart {
    /// Writes the value. Equal values must make equal calls, different values different ones.
    fn write_key(&self, key: &mut KeyWriter<'_>);

    /// Writes a slice of such values; bytes are one item, everything else a group.
    #[doc(hidden)]
    fn write_slice(slice: &[Self], key: &mut KeyWriter<'_>)
    where
        Self: Sized,
    {
        key.group("", |group| {
            for item in slice {
                group.part(item);
            }
        });
    }
}

impl KeyPart for str {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.str(self);
    }
}

impl KeyPart for String {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.str(self);
    }
}

impl KeyPart for bool {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.plain(if *self { "true" } else { "false" });
    }
}

impl KeyPart for char {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.str(self.encode_utf8(&mut [0; 4]));
    }
}

impl KeyPart for u8 {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.plain(itoa::Buffer::new().format(*self));
    }

    fn write_slice(slice: &[Self], key: &mut KeyWriter<'_>) {
        key.bytes(slice);
    }
}

macro_rules! integers {
    ($($int:ty)*) => {$(
        impl KeyPart for $int {
            fn write_key(&self, key: &mut KeyWriter<'_>) {
                key.plain(itoa::Buffer::new().format(*self));
            }
        }
    )*};
}

integers!(u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! non_zero_integers {
    ($($int:ty)*) => {$(
        impl KeyPart for NonZero<$int> {
            fn write_key(&self, key: &mut KeyWriter<'_>) {
                self.get().write_key(key);
            }
        }
    )*};
}

non_zero_integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

impl<T: KeyPart> KeyPart for [T] {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        T::write_slice(self, key);
    }
}

impl<T: KeyPart, const N: usize> KeyPart for [T; N] {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        T::write_slice(self, key);
    }
}

impl<T: KeyPart> KeyPart for Vec<T> {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        T::write_slice(self, key);
    }
}

impl<T: KeyPart> KeyPart for Option<T> {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        match self {
            Some(value) => key.group("some", |group| group.part(value)),
            None => key.group("none", |_| {}),
        }
    }
}

macro_rules! pointers {
    ($($pointer:ty)*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            fn write_key(&self, key: &mut KeyWriter<'_>) {
                (**self).write_key(key);
            }
        }
    )*};
}

pointers!(&T &mut T Box<T> Rc<T> Arc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        (**self).write_key(key);
    }
}

impl KeyPart for () {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.group("", |_| {});
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: KeyPart),+> KeyPart for ($($name,)+) {
            fn write_key(&self, key: &mut KeyWriter<'_>) {
                #[allow(non_snake_case, reason = "the fields are named like their types")]
                let ($($name,)+) = self;
                key.group("", |group| {
                    $(group.part($name);)+
                });
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

#[cfg(feature = "uuid")]
impl KeyPart for uuid::Uuid {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.plain(self.hyphenated().encode_lower(&mut Self::encode_buffer()));
    }
}
