//! The price list of Amazon EC2 as JSON: an offer file, or responses of GetProducts.
//!
//! An offer file of a region has hundreds of megabytes, so it is read as a stream: of its products those
//! that count are kept, then their terms are read.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::BufRead;
use std::marker::PhantomData;

use phasemeter_meter::date::Date;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::aws::{COLUMNS, row};
use super::pages::Items;
use super::{Imported, Problem};

/// A product, with the attributes that decide whether and as what it counts.
#[derive(Debug, Deserialize)]
struct Product {
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Attributes {
    instance_type: String,
    region_code: String,
    tenancy: String,
    operating_system: String,
    #[serde(rename = "preInstalledSw")]
    software: String,
    #[serde(rename = "capacitystatus")]
    status: String,
    gpu: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default)]
    price_dimensions: BTreeMap<String, Dimension>,
    #[serde(default)]
    term_attributes: TermAttributes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    unit: String,
    price_per_unit: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct TermAttributes {
    lease_contract_length: String,
    purchase_option: String,
    offering_class: String,
}

/// One product with its terms, as GetProducts returns it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    product: Product,
    #[serde(default)]
    terms: BTreeMap<String, BTreeMap<String, Term>>,
    publication_date: String,
}

/// What is read of a file.
struct Offers<'i, 'b> {
    as_of: Option<Date>,
    published: Option<Date>,
    products: HashMap<String, Attributes>,
    has_terms: bool,
    imported: &'i mut Imported<'b>,
}

/// Reads an offer file, or responses one after another.
pub(super) fn read(
    text: impl BufRead,
    as_of: Option<Date>,
    imported: &mut Imported<'_>,
) -> Result<(), Problem> {
    let (products, published) = (HashMap::new(), None);
    let mut offers = Offers { as_of, published, products, has_terms: false, imported };
    let mut input = serde_json::Deserializer::from_reader(text);
    loop {
        let read = DeserializeSeed::deserialize(&mut offers, &mut input);
        read.map_err(|error| {
            if !error.is_data() || !offers.has_terms {
                return Problem::Format;
            }
            let problem = error.to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default();
            Problem::Row(error.line(), problem.to_owned())
        })?;
        if !offers.has_terms {
            return Err(Problem::Format);
        }
        if input.end().is_ok() {
            return Ok(());
        }
    }
}

impl Offers<'_, '_> {
    fn add(&mut self, attributes: &Attributes, kind: &str, term: &Term) -> Result<(), String> {
        let as_of = self.as_of.or(self.published).ok_or("no publicationDate before the prices")?;
        add(self.imported, as_of, attributes, kind, term)
    }

    fn add_listing(&mut self, listing: &Listing) -> Result<(), String> {
        self.published = date(&listing.publication_date);
        let attributes = &listing.product.attributes;
        if attributes.is_usual() {
            for (kind, terms) in &listing.terms {
                terms.values().try_for_each(|term| self.add(attributes, kind, term))?;
            }
        }
        Ok(())
    }
}

impl Attributes {
    /// Whether it may be an instance that counts: others are not kept.
    fn is_usual(&self) -> bool {
        self.tenancy == "Shared" && self.operating_system == "Linux" && self.software == "NA"
    }
}

fn date(text: &str) -> Option<Date> {
    text.get(..10).and_then(|date| date.parse().ok())
}

/// Adds the price of a term, if it is one per hour and nothing is paid upfront.
fn add(
    imported: &mut Imported<'_>,
    as_of: Date,
    attributes: &Attributes,
    kind: &str,
    term: &Term,
) -> Result<(), String> {
    let Attributes { instance_type, region_code, .. } = attributes;
    if region_code.is_empty() {
        return Err(format!("{instance_type} has no regionCode"));
    }
    let TermAttributes { lease_contract_length, purchase_option, offering_class } =
        &term.term_attributes;
    for dimension in term.price_dimensions.values() {
        let Some(price) = dimension.price_per_unit.get("USD") else { continue };
        let cells: [&str; COLUMNS.len()] = [
            kind,
            &dimension.unit,
            price,
            "USD",
            instance_type,
            region_code,
            &attributes.tenancy,
            &attributes.operating_system,
            &attributes.software,
            &attributes.status,
            lease_contract_length,
            purchase_option,
            offering_class,
        ];
        let has_gpu = !matches!(attributes.gpu.as_str(), "" | "0" | "NA");
        row(cells, has_gpu, as_of, imported)?;
    }
    Ok(())
}

impl<'de> DeserializeSeed<'de> for &mut Offers<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Offers<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an offer file or a response of GetProducts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "publicationDate" => self.published = date(&map.next_value::<String>()?),
                "products" => {
                    let products = &mut self.products;
                    let keep = |sku, product: Product| {
                        if product.attributes.is_usual() {
                            products.insert(sku, product.attributes);
                        }
                        Ok(())
                    };
                    map.next_value_seed(Entries::new(|_: &str| true, keep))?;
                }
                "terms" => {
                    self.has_terms = true;
                    map.next_value_seed(Terms(self))?;
                }
                // Each product is JSON in a string.
                "PriceList" => {
                    self.has_terms = true;
                    map.next_value_seed(Items::new(&mut |text: &String| {
                        let listing = serde_json::from_str(text).map_err(|it| it.to_string())?;
                        self.add_listing(&listing)
                    }))?;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// The terms of an offer file: by kind, by product, by term.
struct Terms<'o, 'i, 'b>(&'o mut Offers<'i, 'b>);

impl<'de> DeserializeSeed<'de> for Terms<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Terms<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("terms")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Offers { as_of, published, products, imported, .. } = self.0;
        while let Some(kind) = map.next_key::<String>()? {
            let read = |sku: String, terms: BTreeMap<String, Term>| {
                let as_of = as_of.or(*published).ok_or("no publicationDate before the prices")?;
                let Some(attributes) = products.get(&sku) else { return Ok(()) };
                terms.values().try_for_each(|term| add(imported, as_of, attributes, &kind, term))
            };
            map.next_value_seed(Entries::new(|sku: &str| products.contains_key(sku), read))?;
        }
        Ok(())
    }
}

/// Reads the entries of an object whose keys are wanted.
struct Entries<V, W, F> {
    wanted: W,
    read: F,
    value: PhantomData<V>,
}

impl<V, W, F> Entries<V, W, F> {
    const fn new(wanted: W, read: F) -> Self {
        Self { wanted, read, value: PhantomData }
    }
}

impl<'de, V, W, F> DeserializeSeed<'de> for Entries<V, W, F>
where
    V: Deserialize<'de>,
    W: Fn(&str) -> bool,
    F: FnMut(String, V) -> Result<(), String>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, V, W, F> Visitor<'de> for Entries<V, W, F>
where
    V: Deserialize<'de>,
    W: Fn(&str) -> bool,
    F: FnMut(String, V) -> Result<(), String>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if (self.wanted)(&key) {
                let value = map.next_value()?;
                (self.read)(key, value).map_err(Error::custom)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}
