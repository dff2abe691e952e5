//! How single values are written in recorded files, and how they stand in fields.
//!
//! The types of the meter and of this crate do not know that they are written, so `#[serde(with)]`
//! names how: [`one`], [`maybe`], [`each`] or [`named`]. This room must not know which field it is.

use std::collections::BTreeMap;

use phasemeter_meter::date::Date;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::Plan;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::savings::recommendation::Target;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use crate::lever::Lever;

/// What can be written and read back.
pub(super) trait Recorded: Sized {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// A record, whose fields stand in a definition beside it.
macro_rules! record {
    ($type:ty, $definition:ident) => {
        impl $crate::recorded::value::Recorded for $type {
            fn write<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $definition::serialize(self, to)
            }

            fn read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $definition::deserialize(from)
            }
        }
    };
}
pub(super) use record;

/// A whole number of a unit.
macro_rules! whole {
    ($type:ty, $wanted:literal, $number:expr, $of:expr) => {
        impl Recorded for $type {
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_u64($number(*self))
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let number = u64::deserialize(from)?;
                let refusal = || D::Error::custom(format_args!("{number}: give {}", $wanted));
                $of(number).ok_or_else(refusal)
            }
        }
    };
}

whole!(
    Timestamp,
    "nanoseconds since 1970, before 2262",
    Timestamp::as_nanos,
    Timestamp::from_nanos
);
whole!(Nanos, "nanoseconds", |nanos: Nanos| nanos.0, |number| Some(Nanos(number)));
whole!(Rate, "nano-USD, at most 10,000 dollars", Rate::nano_usd_per_hour, Rate::new);
whole!(Bytes, "bytes, at most 4 TiB", Bytes::get, Bytes::new);
whole!(
    Milliwatts,
    "milliwatts, at most a megawatt",
    |power: Milliwatts| u64::from(power.get()),
    |number| u32::try_from(number).ok().and_then(Milliwatts::new)
);
whole!(
    NanoUsd,
    "nano-USD",
    // As guests get it: never negative, and enough for 18 billion dollars.
    |money: NanoUsd| u64::try_from(money.0.max(0)).unwrap_or(u64::MAX),
    |number| Some(Self(i128::from(number)))
);

/// A name or a day, as people write it.
macro_rules! text {
    ($type:ty) => {
        impl Recorded for $type {
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

text!(Plan);
text!(Date);
text!(Lever);

impl Recorded for Target {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let known = Self::ALL.into_iter().find(|target| target.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            D::Error::custom(format_args!("there is no target '{name}'; there are {names}"))
        })
    }
}

impl Recorded for Fraction {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.as_f64())
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(from)?;
        let refusal = || D::Error::custom(format_args!("{number}: give a fraction, from 0 to 1"));
        Self::new(number).ok_or_else(refusal)
    }
}

/// A number that may not be there: `null` is NaN.
impl Recorded for f64 {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_finite() { to.serialize_f64(*self) } else { to.serialize_none() }
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(Self::NAN))
    }
}

/// A value as serde takes it.
struct As<T>(T);

impl<T: Recorded> Serialize for As<&T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to)
    }
}

impl<'de, T: Recorded> Deserialize<'de> for As<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Self)
    }
}

/// A field with a value.
pub(super) mod one {
    use super::*;

    pub(in super::super) fn serialize<T: Recorded, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.write(to)
    }

    pub(in super::super) fn deserialize<'de, T: Recorded, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        T::read(from)
    }
}

/// A field that may be `null`.
pub(super) mod maybe {
    use super::*;

    pub(in super::super) fn serialize<T: Recorded, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(As).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, T: Recorded, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<As<T>>::deserialize(from)?.map(|value| value.0))
    }
}

/// A list.
pub(super) mod each {
    use super::*;

    pub(in super::super) fn serialize<T: Recorded, S: Serializer>(
        values: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(As))
    }

    pub(in super::super) fn deserialize<'de, T: Recorded, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        let values = Vec::<As<T>>::deserialize(from)?;
        Ok(values.into_iter().map(|value| value.0).collect())
    }
}

/// Values by name.
pub(super) mod named {
    use super::*;

    pub(in super::super) fn serialize<T: Recorded, S: Serializer>(
        values: &BTreeMap<String, T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(values.iter().map(|(name, value)| (name, As(value))))
    }

    pub(in super::super) fn deserialize<'de, T: Recorded, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, T>, D::Error> {
        let values = BTreeMap::<String, As<T>>::deserialize(from)?;
        Ok(values.into_iter().map(|(name, value)| (name, value.0)).collect())
    }
}
