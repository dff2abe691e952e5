//! Values of `phasemeter plan` with several parts. Errors state what was expected; clap adds flag and
//! value.

use std::str::FromStr;

use clap::ValueEnum;
use phasemeter_meter::money::Rate;
use phasemeter_plan::units::{PerSecond, Ratio, Size};

/// A precision of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// 32 bits.
    Fp32,
    /// 16 bits.
    Bf16,
    /// 16 bits.
    Fp16,
    /// 8 bits.
    Fp8,
    /// 8 bits.
    Int8,
    /// 4 bits.
    Int4,
}

impl Precision {
    /// Bits per value.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Fp32 => 32,
            Self::Bf16 | Self::Fp16 => 16,
            Self::Fp8 | Self::Int8 => 8,
            Self::Int4 => 4,
        }
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadArg {
    pub name: String,
    pub memory: Size,
    pub utilization: Ratio,
    pub count: u64,
}

impl FromStr for WorkloadArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected name=NAME,memory=8GiB,utilization=20%, and count=N for several";
        let mut pairs = Pairs::parse(text, expected)?;
        let workload = Self {
            name: pairs.take("name").ok_or(expected)?.to_owned(),
            memory: pairs.parsed("memory")?.ok_or(expected)?,
            utilization: pairs.parsed("utilization")?.ok_or(expected)?,
            count: pairs.parsed("count")?.unwrap_or(1),
        };
        pairs.finish()?;
        if workload.count == 0 || workload.utilization > Ratio::ONE {
            return Err("expected count from 1, and utilization up to 100%".to_owned());
        }
        Ok(workload)
    }
}

/// GPUs at a price.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferArg {
    pub name: Option<String>,
    pub gpu: Option<String>,
    pub count: u64,
    pub price: Option<Rate>,
    pub throughput: Option<PerSecond>,
    pub provider: Option<String>,
    pub region: Option<String>,
    pub instance_type: Option<String>,
}

impl FromStr for OfferArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected gpu=MODEL or name=NAME, with count=8,price=1.80,throughput=3200";
        let mut pairs = Pairs::parse(text, expected)?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let offer = Self {
            name: owned(pairs.take("name")),
            gpu: owned(pairs.take("gpu")),
            count: pairs.parsed("count")?.unwrap_or(1),
            price: pairs
                .take("price")
                .map(|text| Rate::parse(text).map_err(|error| format!("price {text}: {error}")))
                .transpose()?,
            throughput: pairs.parsed("throughput")?,
            provider: owned(pairs.take("provider")),
            region: owned(pairs.take("region")),
            instance_type: owned(pairs.take("instance-type")),
        };
        pairs.finish()?;
        let is_named = offer.name.is_some() || offer.gpu.is_some() || offer.instance_type.is_some();
        if !is_named || offer.count == 0 {
            return Err(expected.to_owned());
        }
        Ok(offer)
    }
}

/// `key=value` pairs between commas.
struct Pairs<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    expected: &'static str,
}

impl<'a> Pairs<'a> {
    fn parse(text: &'a str, expected: &'static str) -> Result<Self, String> {
        let pair = |part: &'a str| {
            let (key, value) = part.split_once('=')?;
            (!value.is_empty()).then_some((key.trim(), value.trim()))
        };
        let pairs: Option<Vec<_>> = text.split(',').map(pair).collect();
        Ok(Self { pairs: pairs.ok_or(expected)?, expected })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.pairs.iter().position(|(name, _)| *name == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &mut self,
        key: &str,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.take(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| format!("{key} {text}: {error}"))
    }

    fn finish(self) -> Result<(), String> {
        match self.pairs.first() {
            Some((key, _)) => Err(format!("unknown or repeated key '{key}': {}", self.expected)),
            None => Ok(()),
        }
    }
}

/// One size, or the lowest and the highest.
pub(super) fn range(text: &str) -> Result<(Size, Size), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let part = |text: &str| text.trim().parse::<Size>();
    match (part(low), part(high)) {
        (Ok(low), Ok(high)) => Ok((low, high)),
        _ => Err("expected a size or a range with units, like 10GB or 5GB-20GB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_complete_and_known() {
        let offer: OfferArg = "gpu=NVIDIA L4,count=8,price=0.7,throughput=800".parse().unwrap();
        assert_eq!((offer.count, offer.gpu.as_deref()), (8, Some("NVIDIA L4")));
        for text in
            ["", "gpu", "gpu=", "count=8", "gpu=L4,count=0", "gpu=L4,speed=1", "gpu=a,gpu=b"]
        {
            let error = text.parse::<OfferArg>().unwrap_err();
            assert!(error.contains("expected "), "{text:?}: {error}");
        }
        let workload: WorkloadArg = "name=chat,memory=8GiB,utilization=20%".parse().unwrap();
        assert_eq!((workload.count, workload.memory), (1, Size(8 << 30)));
        for text in
            ["name=a", "name=a,memory=8,utilization=20%", "name=a,memory=8GB,utilization=120%"]
        {
            assert!(text.parse::<WorkloadArg>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn ranges_are_parsed_or_rejected() {
        assert_eq!(range("10GB"), Ok((Size(10_000_000_000), Size(10_000_000_000))));
        assert!(range("5-20").is_err() && range("5GB-").is_err());
    }
}
