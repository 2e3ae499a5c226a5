//! Programs in C and C++, compiled as strictly as can be, linked to the libraries, and run.

mod abi;
mod c;
mod compile;
mod cpp;
mod examples;
mod packages;
