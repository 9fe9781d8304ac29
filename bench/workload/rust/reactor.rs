//! The work as a hermes reactor. It is linked with the start-up code of reactors, so that
//! constructors run once, in _initialize.
#![crate_type = "cdylib"]
mod count;

#[link(wasm_import_module = "hermes")]
extern "C" {
    fn input_len() -> u32;
    fn input_read(p: *mut u8, off: u32, n: u32) -> i32;
    fn output_write(p: *const u8, n: u32) -> i32;
    fn error_set(p: *const u8, n: u32);
}

#[no_mangle]
pub extern "C" fn hermes_abi_v1() {}

#[no_mangle]
pub extern "C" fn hermes_call() -> i32 {
    let n = unsafe { input_len() };
    let mut input = vec![0u8; n as usize];
    unsafe { input_read(input.as_mut_ptr(), 0, n) };
    match count::member(&input, b"arguments").and_then(count::count) {
        Some(out) if unsafe { output_write(out.as_ptr(), out.len() as u32) } >= 0 => 0,
        Some(_) => 2,
        None => {
            let text = "text: required";
            unsafe { error_set(text.as_ptr(), text.len() as u32) };
            1
        }
    }
}
