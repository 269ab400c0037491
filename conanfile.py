"""conan create .    (a static or shared Tendril without CUDA and oneDNN; see packaging/README.md for what was run)"""
from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class Tendril(ConanFile):
    name = "tendril"
    version = "0.1.0"
    description = "Tensors, autograd and distributed autograd in C++20"
    license = "Apache-2.0"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    package_type = "library"
    generators = "CMakeDeps"
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "tensor/*", "autograd/*", "nn/*", "data/*", "rpc/*", "dist/*", "envs/*"

    def requirements(self):
        self.requires("boost/[>=1.81 <2]", transitive_headers=True)
        self.requires("openssl/[>=3 <4]")
        self.requires("spdlog/[>=1.10 <2]")
        self.requires("zlib/[>=1.2 <2]")
        self.requires("libpng/[>=1.6 <2]")
        self.requires("libjpeg-turbo/[>=2 <4]")

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # no file in the source tree
        for name in ("TESTS", "EXAMPLES", "CUDA", "ONEDNN"):
            toolchain.cache_variables[f"TENDRIL_{name}"] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The package file that CMake installs is the one to use: it knows what each library needs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/tendril"]
