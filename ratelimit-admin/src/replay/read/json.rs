//! [`Object`]: an object of JSON whose names are distinct.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// An object; or, as an error, a name that it or an object in it has twice: a client may have sent
/// one of the two.
pub(super) struct Object(pub(super) Result<Map<String, Value>, String>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut twice = None;
        let value = Distinct { twice: &mut twice }.deserialize(from)?;
        match (value, twice) {
            (Value::Object(_), Some(name)) => Ok(Self(Err(name))),
            (Value::Object(object), None) => Ok(Self(Ok(object))),
            _ => Err(Error::custom("a value that is no object")),
        }
    }
}

/// Reads a value, and keeps the first name that an object in it has twice.
struct Distinct<'a> {
    twice: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Distinct<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Distinct<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = from.next_element_seed(Distinct { twice: self.twice })? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            let value = from.next_value_seed(Distinct { twice: self.twice })?;
            if members.contains_key(&name) {
                self.twice.get_or_insert(name);
            } else {
                members.insert(name, value);
            }
        }
        Ok(members.into())
    }
}
