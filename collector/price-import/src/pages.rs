//! Pages of JSON with a list of items each, which are read one at a time: a file of pages may be large.

use std::fmt;
use std::io::Read;
use std::marker::PhantomData;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};

/// Reads one or more pages, whose items are in the list of this name.
///
/// # Errors
/// Returns an error if it is not JSON, or a page lacks the list.
pub(super) fn items<T: DeserializeOwned>(
    text: impl Read,
    list: &'static str,
    visit: &mut dyn FnMut(&T),
) -> serde_json::Result<()> {
    let mut input = serde_json::Deserializer::from_reader(text);
    loop {
        Page { list, visit: &mut *visit, item: PhantomData }.deserialize(&mut input)?;
        if input.end().is_ok() {
            return Ok(());
        }
    }
}

struct Page<'a, T> {
    list: &'static str,
    visit: &'a mut dyn FnMut(&T),
    item: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Page<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Page<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { list, visit, .. } = self;
        let mut is_found = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == list {
                is_found = true;
                map.next_value_seed(Items::new(&mut |item| {
                    visit(item);
                    Ok(())
                }))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if is_found { Ok(()) } else { Err(A::Error::missing_field(list)) }
    }
}

/// Reads a list whose items are visited one at a time.
pub(super) struct Items<'a, T> {
    visit: &'a mut dyn FnMut(&T) -> Result<(), String>,
    item: PhantomData<T>,
}

impl<'a, T> Items<'a, T> {
    /// Ends with the first error of `visit`.
    pub(super) fn new(visit: &'a mut dyn FnMut(&T) -> Result<(), String>) -> Self {
        Self { visit, item: PhantomData }
    }
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Items<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Items<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element::<T>()? {
            (self.visit)(&item).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::{self, Read};

    use serde_json::Value;

    /// A page whose list never ends: as many bytes as are read.
    struct Endless<'a> {
        read: &'a Cell<usize>,
        limit: usize,
    }

    impl Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            const START: &[u8] = b"{\"Items\":[";
            const ITEM: &[u8] = b"{\"a\":1},";
            let mut length = 0;
            for byte in buffer.iter_mut() {
                let at = self.read.get();
                if at >= self.limit {
                    break;
                }
                let item = || ITEM[(at - START.len()) % ITEM.len()];
                *byte = START.get(at).copied().unwrap_or_else(item);
                self.read.set(at + 1);
                length += 1;
            }
            Ok(length)
        }
    }

    fn count(text: impl Read) -> (bool, usize) {
        let mut items = 0;
        let read = super::items(text, "Items", &mut |_: &Value| items += 1);
        (read.is_ok(), items)
    }

    #[test]
    fn items_of_all_pages_are_read() {
        let pages = br#"{"a":[1],"Items":[1,2],"b":{}} {"Items":[3]}"#;
        assert_eq!(count(&pages[..]), (true, 3));
        for wrong in ["", "[]", "{}", r#"{"Items":{}}"#, r#"{"Items":[1"#, r#"{"Items":[]} x"#] {
            assert!(!count(wrong.as_bytes()).0, "{wrong}");
        }
    }

    /// Guarantee: an item is passed on before the next one is read, so a list without an end takes no memory.
    #[test]
    fn items_are_passed_on_as_they_are_read() {
        let read = Cell::new(0);
        let text = Endless { read: &read, limit: 8 << 20 };
        let mut ahead = 0;
        let mut items = 0;
        let mut visit = |_: &Value| {
            items += 1;
            ahead = ahead.max(read.get() - items * 8);
        };
        assert!(super::items(text, "Items", &mut visit).is_err());
        assert!(items > 1_000_000 && ahead < 64, "{items} items, {ahead} bytes ahead");
    }
}
