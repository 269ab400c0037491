# Boost and the others as Debian 12 has them, in place of Conan's recipes: conan create . -pr packaging/conan/system.profile
include(default)

[settings]
compiler.cppstd=20

[platform_requires]
boost/1.81.0
openssl/3.0.17
spdlog/1.10.0
zlib/1.2.13
libpng/1.6.39
libjpeg-turbo/2.1.5
