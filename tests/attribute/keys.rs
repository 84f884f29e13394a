//! Keys that could be taken for something else.

use ratelimit_runtime::{RateLimitError, rate_limit};

use super::Outcome;

#[rate_limit(key = ("<email>"), window = ("60s"), max = (1))]
async fn in_parentheses(email: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = { "<email>" }, window = "60s", max = { 1 })]
async fn in_a_block(email: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = ("mail", format!("<{email}>")), window = "60s", max = 1)]
async fn formatted(email: &str) -> Outcome {
    Ok(())
}

trait Tenant {
    const NAME: &'static str;

    #[rate_limit(key = Self::NAME, window = "60s", max = 1, name = "tenants")]
    async fn send() -> Outcome {
        Ok(())
    }
}

struct A;
struct B;

impl Tenant for A {
    const NAME: &'static str = "a";
}

impl Tenant for B {
    const NAME: &'static str = "b";
}

/// What a macro on the method cannot see: the parameters of the `impl`.
struct Of<T, const N: usize>(std::marker::PhantomData<T>);

impl<T: Tenant, const N: usize> Of<T, N> {
    #[rate_limit(key = N, window = "60s", max = 1)]
    async fn by_its_const_parameter() -> Outcome {
        Ok(())
    }

    #[rate_limit(key = (N, format!("{N}")), window = "60s", max = 1)]
    async fn by_a_text_with_it() -> Outcome {
        Ok(())
    }

    #[rate_limit(key = T::NAME, window = "60s", max = 1)]
    async fn by_a_constant_of_its_type() -> Outcome {
        Ok(())
    }

    #[rate_limit(key = <T as Tenant>::NAME.to_owned(), window = "60s", max = 1)]
    async fn by_a_constant_of_its_trait() -> Outcome {
        Ok(())
    }
}

#[tokio::test]
async fn parameters_of_the_impl_may_be_keys() {
    one_each!(
        Of::<A, 1>::by_its_const_parameter(),
        Of::<A, 2>::by_its_const_parameter()
    );
    one_each!(
        Of::<A, 1>::by_a_text_with_it(),
        Of::<A, 2>::by_a_text_with_it()
    );
    one_each!(
        Of::<A, 1>::by_a_constant_of_its_type(),
        Of::<B, 1>::by_a_constant_of_its_type()
    );
    one_each!(
        Of::<A, 1>::by_a_constant_of_its_trait(),
        Of::<B, 1>::by_a_constant_of_its_trait()
    );
}

#[rate_limit(key = N, window = "60s", max = 1)]
async fn by_const_parameter<const N: usize>() -> Outcome {
    Ok(())
}

tokio::task_local! {
    static TENANT: u32;
}

#[rate_limit(key = TENANT.get(), window = "60s", max = 1)]
async fn by_a_task_local() -> Outcome {
    Ok(())
}

macro_rules! part_of {
    ($email:ident) => {
        $email.split('@').next().unwrap_or($email)
    };
}

/// What a macro hides is evaluated in a closure.
#[rate_limit(key = part_of!(email), window = "60s", max = 1)]
async fn by_a_macro(email: &str) -> Outcome {
    Ok(())
}

struct Service {
    id: u32,
}

macro_rules! id_of {
    ($service:expr) => {
        $service.id
    };
}

impl Service {
    #[rate_limit(key = id_of!(self), window = "60s", max = 1)]
    async fn by_a_macro(&mut self) -> Result<u32, RateLimitError> {
        self.id += 0;
        Ok(self.id)
    }
}

struct Account {
    name: String,
}

macro_rules! name_of {
    ($account:ident) => {
        $account.name
    };
}

macro_rules! shouted {
    ($text:expr) => {
        $text.to_uppercase()
    };
}

/// A macro may stand for a place, and for a value that lives no longer than the expression.
#[rate_limit(key = name_of!(account), window = "60s", max = 1)]
#[rate_limit(key = shouted!(account.name).as_str(), window = "60s", max = 1)]
async fn by_a_place(account: Account) -> Outcome {
    Ok(())
}

macro_rules! whole_body {
    {$($tokens:tt)*} => {
        $($tokens)*
    };
}

fn digest(email: &str) -> String {
    email.to_owned()
}

/// The items of a body that is one macro do not meet what the attribute names.
#[rate_limit(key = digest(email), window = "60s", max = 1)]
async fn body_of_one_macro(email: &str) -> Outcome {
    whole_body! {
        #[allow(dead_code, reason = "it must not be found")]
        fn digest(_: &str) -> String { String::new() }
        Ok(())
    }
}

#[tokio::test]
async fn every_caller_has_a_key_of_its_own() {
    one_each!(in_parentheses("a"), in_parentheses("b"));
    one_each!(in_a_block("a"), in_a_block("b"));
    one_each!(formatted("a"), formatted("b"));
    one_each!(A::send(), B::send());
    one_each!(by_const_parameter::<1>(), by_const_parameter::<2>());
    one_each!(
        TENANT.scope(1, by_a_task_local()),
        TENANT.scope(2, by_a_task_local())
    );
    one_each!(by_a_macro("a@b"), by_a_macro("c@b"));
    one_each!(
        Service { id: 1 }.by_a_macro(),
        Service { id: 2 }.by_a_macro()
    );
    let account = |name: &str| Account {
        name: name.to_owned(),
    };
    one_each!(by_a_place(account("a")), by_a_place(account("b")));
    one_each!(body_of_one_macro("a"), body_of_one_macro("b"));
}
