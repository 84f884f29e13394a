//! `#[derive(KeyPart)]`.
#![deny(warnings)]
#![allow(dead_code, reason = "nothing uses what is deprecated")]

use std::marker::PhantomData;

use ratelimit_runtime::{Key, KeyPart};

/// Not a `KeyPart`.
struct Users;

#[derive(KeyPart)]
struct Id<T>(u64, PhantomData<T>);

#[derive(KeyPart)]
struct Named<T> {
    id: u64,
    of: PhantomData<T>,
}

#[derive(KeyPart)]
enum Either<T> {
    Left(PhantomData<T>, u8),
    Right { right: u8, of: PhantomData<T> },
}

#[test]
fn a_marker_is_no_part_of_a_key() {
    assert_eq!(Key::of(&Id::<Users>(7, PhantomData)), Key::of(&7_u64));
    let named = Named::<Users> {
        id: 7,
        of: PhantomData,
    };
    assert_ne!(Key::of(&named), Key::of(&Named::<Users> { id: 8, ..named }));
    let left = Key::of(&Either::<Users>::Left(PhantomData, 1));
    assert_ne!(left, Key::of(&Either::<Users>::Left(PhantomData, 2)));
    assert_ne!(
        left,
        Key::of(&Either::<Users>::Right {
            right: 1,
            of: PhantomData
        })
    );
}

#[deprecated]
#[derive(KeyPart)]
pub(crate) struct Old {
    #[deprecated]
    pub(crate) id: u32,
}

#[derive(KeyPart)]
pub(crate) enum Kind {
    #[deprecated]
    Old(u32),
    New,
}

#[test]
fn a_deprecated_type_may_have_a_key() {
    #[derive(KeyPart)]
    struct Local(u32);

    assert_ne!(Key::of(&Kind::New), Key::of(&Local(1)));
}

#[derive(KeyPart)]
enum Tree<T> {
    Leaf(T),
    Node(Box<(T, Self)>),
}

#[test]
fn a_generic_type_may_contain_itself() {
    let tree = Tree::Node(Box::new((1, Tree::Leaf(2))));
    assert_ne!(Key::of(&tree), Key::of(&Tree::Leaf(1)));
}
