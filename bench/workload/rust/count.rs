// The work of the benchmark in Rust. See workload/go/count.

fn skip_space(b: &[u8], mut i: usize) -> usize {
    while i < b.len() && matches!(b[i], b' ' | b'\t' | b'\n' | b'\r') {
        i += 1;
    }
    i
}

/// The index after the string that starts at i.
fn skip_string(b: &[u8], mut i: usize) -> Option<usize> {
    i += 1;
    while i < b.len() {
        match b[i] {
            b'\\' => i += 2,
            b'"' => return Some(i + 1),
            _ => i += 1,
        }
    }
    None
}

/// The index after the value at i.
fn skip_value(b: &[u8], mut i: usize) -> Option<usize> {
    let mut depth = 0;
    while i < b.len() {
        match b[i] {
            b'"' => {
                i = skip_string(b, i)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(i),
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return Some(i),
            _ => {}
        }
        i += 1;
    }
    Some(i)
}

/// The raw value of a key of the object in json.
pub fn member<'a>(json: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut i = skip_space(json, 0);
    if json.get(i) != Some(&b'{') {
        return None;
    }
    loop {
        i = skip_space(json, i + 1);
        if json.get(i) != Some(&b'"') {
            return None;
        }
        let name = i + 1;
        i = skip_string(json, i)?;
        let found = &json[name..i - 1] == key;
        i = skip_space(json, i);
        if json.get(i) != Some(&b':') {
            return None;
        }
        let value = skip_space(json, i + 1);
        i = skip_value(json, value)?;
        if found {
            return Some(&json[value..i]);
        }
        if json.get(i) != Some(&b',') {
            return None;
        }
    }
}

fn hex4(b: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(b.get(..4)?).ok()?, 16).ok()
}

fn unquote(raw: &[u8]) -> Option<Vec<u8>> {
    if raw.first() != Some(&b'"') {
        return None;
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut i = 1;
    while i < raw.len() && raw[i] != b'"' {
        if raw[i] != b'\\' {
            out.push(raw[i]);
            i += 1;
            continue;
        }
        let c = *raw.get(i + 1)?;
        i += 2;
        match c {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => {
                let mut v = hex4(raw.get(i..)?)?;
                i += 4;
                if (0xd800..0xdc00).contains(&v) {
                    let low = hex4(raw.get(i + 2..)?)?;
                    v = 0x10000 + ((v - 0xd800) << 10) + (low & 0x3ff);
                    i += 6;
                }
                let mut buf = [0; 4];
                out.extend_from_slice(char::from_u32(v)?.encode_utf8(&mut buf).as_bytes());
            }
            _ => out.push(c),
        }
    }
    Some(out)
}

/// The result for the arguments in json, or None if they are not right.
pub fn count(json: &[u8]) -> Option<String> {
    let text = unquote(member(json, b"text")?)?;
    let (mut hash, mut words, mut inside) = (14695981039346656037u64, 0u32, false);
    for &c in &text {
        hash = (hash ^ c as u64).wrapping_mul(1099511628211);
        let space = matches!(c, b' ' | b'\t' | b'\n' | b'\r');
        if !space && !inside {
            words += 1;
        }
        inside = !space;
    }
    Some(format!("{{\"words\":{},\"fnv1a\":\"{:016x}\"}}", words, hash))
}
