//! The files of odd and broken bodies.

use serde_json::Value;

/// A request of a file.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Row {
    pub(crate) fn encoded(&self) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        names.any(|name| name == "content-encoding")
    }
}

pub(crate) fn rows(file: &str) -> Vec<Row> {
    let row = |line| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let headers = row["headers"].as_object().unwrap().iter();
        Row {
            name: text("name"),
            group: text("group"),
            path: text("path"),
            headers: headers
                .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            body: base64(row["body_b64"].as_str().unwrap()),
        }
    };
    file.lines().map(row).collect()
}

pub(crate) fn base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |c: u8| digits.iter().position(|d| *d == c);
    let sextets: Vec<usize> = text.bytes().filter_map(digit).collect();
    let bytes = sextets.chunks(4).flat_map(|chunk| {
        let bits = chunk.iter().fold(0, |bits, sextet| bits << 6 | sextet);
        let bits = bits << (6 * (4 - chunk.len()));
        [16, 8, 0]
            .into_iter()
            .take(chunk.len() - 1)
            .map(move |shift| (bits >> shift) as u8)
    });
    bytes.collect()
}
