//! Rows as Parquet, with a type per column and compressed, in row groups of limited size.
//!
//! Numbers are `DECIMAL(38, 9)`, so that sums are exact; instants are microseconds in UTC, the finest
//! that Spark reads; tags are a map, so that a query reads `Tags['team']`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use phasemeter_meter::units::Timestamp;

use super::row::columns;
use super::value::{Decimal, Kind, RowSink, Value};
use super::version::FocusOptions;

/// Size in memory at which a row group is written: some 40,000 usual rows.
const GROUP_SIZE: usize = 32 << 20;

/// Writes rows as Parquet.
pub struct ParquetRows<W: Write + Send> {
    file: SerializedFileWriter<W>,
    /// The columns of the row group that is not yet written.
    columns: Vec<ColumnBuffer>,
}

/// The values of a column in a row group. A level of 0 is null.
enum ColumnBuffer {
    Text {
        values: Texts,
        levels: Vec<i16>,
    },
    Decimal {
        values: Vec<i128>,
        levels: Vec<i16>,
    },
    Time(Vec<i64>),
    /// The level of an entry is the highest, that of an empty map one less, and of null, if it can be, 0. A
    /// repetition of 1 continues the map.
    Map {
        is_optional: bool,
        keys: Texts,
        values: Texts,
        levels: Vec<i16>,
        repetitions: Vec<i16>,
    },
}

/// Values of text, of which most are repeated.
#[derive(Default)]
struct Texts {
    indices: HashMap<String, u32>,
    distinct: Vec<ByteArray>,
    values: Vec<u32>,
    /// Bytes of distinct text.
    length: usize,
}

impl<W: Write + Send> ParquetRows<W> {
    /// Writes the first bytes.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written to.
    pub fn new(out: W, options: &FocusOptions) -> io::Result<Self> {
        let entry = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
        let generator = concat!("phasemeter ", env!("CARGO_PKG_VERSION"));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![
                entry("FocusVersion", options.version.name()),
                entry("DataGenerator", generator),
            ]))
            .build();
        let schema = parse_message_type(&schema(options)).map_err(io_error)?;
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        let columns = columns(options).map(|(_, kind)| ColumnBuffer::new(kind)).collect();
        Ok(Self { file: file.map_err(io_error)?, columns })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
            column.clear();
        }
        group.close()?;
        Ok(())
    }
}

impl<W: Write + Send> RowSink for ParquetRows<W> {
    fn write(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
        if self.columns.iter().map(ColumnBuffer::size).sum::<usize>() >= GROUP_SIZE {
            self.write_group().map_err(io_error)?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if self.columns.iter().any(|column| column.size() > 0) {
            self.write_group().map_err(io_error)?;
        }
        self.file.finish().map_err(io_error)?;
        Ok(())
    }
}

/// The schema, in Parquet's notation.
fn schema(options: &FocusOptions) -> String {
    let mut schema = "message focus {\n".to_owned();
    for (name, kind) in columns(options) {
        // Cannot fail: it is written to a string.
        let _ = match kind {
            Kind::Text => writeln!(schema, "optional binary {name} (STRING);"),
            Kind::Decimal => {
                writeln!(schema, "optional fixed_len_byte_array(16) {name} (DECIMAL(38,9));")
            }
            Kind::Time => writeln!(schema, "required int64 {name} (TIMESTAMP(MICROS,true));"),
            Kind::Map | Kind::OptionalMap => writeln!(
                schema,
                "{} group {name} (MAP) {{ repeated group key_value {{ \
                 required binary key (STRING); required binary value (STRING); }} }}",
                if kind == Kind::Map { "required" } else { "optional" }
            ),
        };
    }
    schema + "}"
}

impl ColumnBuffer {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text { values: Texts::default(), levels: Vec::new() },
            Kind::Decimal => Self::Decimal { values: Vec::new(), levels: Vec::new() },
            Kind::Time => Self::Time(Vec::new()),
            Kind::Map | Kind::OptionalMap => Self::Map {
                is_optional: kind == Kind::OptionalMap,
                keys: Texts::default(),
                values: Texts::default(),
                levels: Vec::new(),
                repetitions: Vec::new(),
            },
        }
    }

    fn push(&mut self, value: &Value<'_>) {
        match (self, value) {
            (Self::Text { values, levels }, Value::Text(text)) => {
                text.iter().for_each(|text| values.push(text));
                levels.push(i16::from(text.is_some()));
            }
            (Self::Decimal { values, levels }, Value::Decimal(number)) => {
                values.extend(number.map(|Decimal(nanos)| nanos));
                levels.push(i16::from(number.is_some()));
            }
            (Self::Time(values), Value::Time(at)) => values.push(micros(*at)),
            (Self::Map { is_optional, keys, values, levels, repetitions }, Value::Map(map)) => {
                let empty = i16::from(*is_optional && map.is_some());
                let entries = map.iter().flat_map(|map| map.iter());
                for (index, (key, value)) in entries.enumerate() {
                    keys.push(key);
                    values.push(value);
                    levels.push(empty + 1);
                    repetitions.push(i16::from(index > 0));
                }
                if map.is_none_or(BTreeMap::is_empty) {
                    levels.push(empty);
                    repetitions.push(0);
                }
            }
            // Does not occur: a value is of its column's kind. The row group would be rejected, since
            // its columns would differ in length.
            (_, _) => {}
        }
    }

    /// Its size in memory, about.
    fn size(&self) -> usize {
        match self {
            Self::Text { values, levels } => values.size() + size_of_val(&levels[..]),
            Self::Decimal { values, levels } => size_of_val(&values[..]) + size_of_val(&levels[..]),
            Self::Time(values) => size_of_val(&values[..]),
            Self::Map { keys, values, levels, repetitions, .. } => {
                let levels = size_of_val(&levels[..]) + size_of_val(&repetitions[..]);
                keys.size() + values.size() + levels
            }
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Text { values, levels } => {
                *values = Texts::default();
                levels.clear();
            }
            Self::Decimal { values, levels } => {
                values.clear();
                levels.clear();
            }
            Self::Time(values) => values.clear(),
            Self::Map { keys, values, levels, repetitions, .. } => {
                (*keys, *values) = Default::default();
                levels.clear();
                repetitions.clear();
            }
        }
    }

    fn write<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match self {
            Self::Text { values, levels } => {
                write_leaf::<ByteArrayType, _>(group, &values.arrays(), Some(levels), None)
            }
            Self::Decimal { values, levels } => {
                let bytes = |value: &i128| ByteArray::from(value.to_be_bytes().to_vec()).into();
                let values: Vec<FixedLenByteArray> = values.iter().map(bytes).collect();
                write_leaf::<FixedLenByteArrayType, _>(group, &values, Some(levels), None)
            }
            Self::Time(values) => write_leaf::<Int64Type, _>(group, values, None, None),
            Self::Map { keys, values, levels, repetitions, .. } => {
                for texts in [keys, values] {
                    let (levels, repetitions) = (Some(levels.as_slice()), Some(&repetitions[..]));
                    write_leaf::<ByteArrayType, _>(group, &texts.arrays(), levels, repetitions)?;
                }
                Ok(())
            }
        }
    }
}

/// Writes the next column of the schema, of which a map has two.
fn write_leaf<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
    repetitions: Option<&[i16]>,
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, levels, repetitions)?;
        column.close()?;
    }
    Ok(())
}

impl Texts {
    fn push(&mut self, text: &str) {
        let index = match self.indices.get(text) {
            Some(index) => *index,
            None => {
                // A row group has fewer values.
                let index = u32::try_from(self.distinct.len()).unwrap_or(u32::MAX);
                self.indices.insert(text.to_owned(), index);
                self.distinct.push(text.into());
                self.length += text.len();
                index
            }
        };
        self.values.push(index);
    }

    /// Each distinct text is kept twice.
    fn size(&self) -> usize {
        2 * self.length + size_of_val(&self.distinct[..]) + size_of_val(&self.values[..])
    }

    fn arrays(&self) -> Vec<ByteArray> {
        self.values.iter().map(|index| self.distinct[*index as usize].clone()).collect()
    }
}

fn micros(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX)
}

/// The error of the output, if it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => error.into(),
    }
}
