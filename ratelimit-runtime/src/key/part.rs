//! [`KeyPart`] for standard types and UUIDs, so that arguments of a function are keys as they are.

use std::borrow::Cow;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use super::kind::KeyKind;
use super::writer::{KeyPart, KeyWriter};

#[diagnostic::do_not_recommend]
impl KeyPart for str {
    const KIND: KeyKind = KeyKind::Text;

    #[inline]
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.str(self);
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for String {
    const KIND: KeyKind = KeyKind::Text;

    #[inline]
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.str(self);
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for bool {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.plain(if *self { "true" } else { "false" });
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for char {
    const KIND: KeyKind = KeyKind::Text;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.str(self.encode_utf8(&mut [0; 4]));
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for u8 {
    const KIND: KeyKind = KeyKind::Number;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.plain(itoa::Buffer::new().format(*self));
    }

    fn write_slice(slice: &[Self], key: &mut KeyWriter<'_>) {
        key.bytes(slice);
    }
}

macro_rules! integers {
    ($($int:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl KeyPart for $int {
            const KIND: KeyKind = KeyKind::Number;

            fn write_key(&self, key: &mut KeyWriter<'_>) {
                key.plain(itoa::Buffer::new().format(*self));
            }
        }
    )*};
}

integers!(u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! non_zero_integers {
    ($($int:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl KeyPart for NonZero<$int> {
            const KIND: KeyKind = KeyKind::Number;

            fn write_key(&self, key: &mut KeyWriter<'_>) {
                self.get().write_key(key);
            }
        }
    )*};
}

non_zero_integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

#[diagnostic::do_not_recommend]
impl<T: KeyPart> KeyPart for [T] {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        T::write_slice(self, key);
    }
}

#[diagnostic::do_not_recommend]
impl<T: KeyPart, const N: usize> KeyPart for [T; N] {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        T::write_slice(self, key);
    }
}

#[diagnostic::do_not_recommend]
impl<T: KeyPart> KeyPart for Vec<T> {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        T::write_slice(self, key);
    }
}

#[diagnostic::do_not_recommend]
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
        #[diagnostic::do_not_recommend]
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            const KIND: KeyKind = T::KIND;

            fn write_key(&self, key: &mut KeyWriter<'_>) {
                (**self).write_key(key);
            }
        }
    )*};
}

pointers!(&T &mut T Box<T> Rc<T> Arc<T>);

#[diagnostic::do_not_recommend]
impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    const KIND: KeyKind = T::KIND;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        (**self).write_key(key);
    }
}

// Not `()`: a call without a value, such as `must_be_valid(email)?`, would be one key for all.
macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        #[diagnostic::do_not_recommend]
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
#[diagnostic::do_not_recommend]
impl KeyPart for uuid::Uuid {
    const KIND: KeyKind = KeyKind::Text;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.plain(self.hyphenated().encode_lower(&mut Self::encode_buffer()));
    }
}
